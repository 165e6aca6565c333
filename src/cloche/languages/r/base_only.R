# The profile of a program that starts without R's default packages; the user's own profile may need them.
local({
  Sys.unsetenv(c("R_DEFAULT_PACKAGES", "R_PROFILE_USER"))
  # To find the time zone, R would ask systemd first, which does not run here, and print a warning.
  zone <- sub(".*/zoneinfo/", "", Sys.readlink("/etc/localtime"))
  if (nzchar(zone) && !nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = zone)
  own <- Filter(file.exists, c(".Rprofile", "~/.Rprofile"))
  if (length(own)) {
    packages <- c("methods", "datasets", "utils", "grDevices", "graphics", "stats")
    for (name in packages) library(name, character.only = TRUE)
    source(own[1L])
  }
})
