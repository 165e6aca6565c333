puts [info patchlevel]
