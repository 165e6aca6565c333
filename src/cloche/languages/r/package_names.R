for (name in getOption("defaultPackages")) cat(ls(paste0("package:", name), all.names = TRUE), sep = "\n", "")
