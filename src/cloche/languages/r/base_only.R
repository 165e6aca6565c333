# Started without the packages that R always has; one's own profile may need them.
local({
  Sys.unsetenv(c("R_DEFAULT_PACKAGES", "R_PROFILE_USER"))
  # Asked for the time zone, R would ask systemd first, which is not there, and complain of that.
  zone <- sub(".*/zoneinfo/", "", Sys.readlink("/etc/localtime"))
  if (nzchar(zone) && !nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = zone)
  own <- Filter(file.exists, c(".Rprofile", "~/.Rprofile"))
  if (length(own)) {
    packages <- c("methods", "datasets", "utils", "grDevices", "graphics", "stats")
    for (name in packages) library(name, character.only = TRUE)
    source(own[1L])
  }
})
