"""Files that outlive their sandbox: scanned inside it, saved on the server's disk, restored into the next sandbox."""
