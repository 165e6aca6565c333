# What a program plots without opening a device of its own is kept as pictures: 001-001.png, 001-002.png …
local({
  folder <- Sys.getenv("CLOCHE_SHOWN")
  Sys.unsetenv(c("CLOCHE_SHOWN", "R_PROFILE_USER"))  # R programs that this one starts have plots of their own
  opened <- 0L
  options(device = function(width = 8, height = 6, ...) {
    opened <<- opened + 1L
    pages <- file.path(folder, sprintf("%03d-%%03d.png", opened))
    grDevices::png(pages, width = width, height = height, units = "in", res = 100, type = "cairo")
  })
  # Asked for the time zone, R would ask systemd first, which is not there, and complain of that.
  zone <- sub(".*/zoneinfo/", "", Sys.readlink("/etc/localtime"))
  if (nzchar(zone) && !nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = zone)
  own <- Filter(file.exists, c(".Rprofile", "~/.Rprofile"))
  if (length(own)) source(own[1L])
})
