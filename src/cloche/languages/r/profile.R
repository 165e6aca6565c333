# Saves the plots of a program that opens no device of its own as pictures: 001-001.png, 001-002.png …
local({
  folder <- Sys.getenv("CLOCHE_SHOWN")
  Sys.unsetenv(c("CLOCHE_SHOWN", "R_PROFILE_USER"))  # R programs that this one starts handle their own plots
  opened <- 0L
  options(device = function(width = 8, height = 6, ...) {
    opened <<- opened + 1L
    pages <- file.path(folder, sprintf("%03d-%%03d.png", opened))
    grDevices::png(pages, width = width, height = height, units = "in", res = 100, type = "cairo")
  })
  # To find the time zone, R would ask systemd first, which does not run here, and print a warning.
  zone <- sub(".*/zoneinfo/", "", Sys.readlink("/etc/localtime"))
  if (nzchar(zone) && !nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = zone)
  own <- Filter(file.exists, c(".Rprofile", "~/.Rprofile"))
  if (length(own)) source(own[1L])
})
