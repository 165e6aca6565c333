# Started without the packages that R always has; one's own profile may need them.
local({
  Sys.unsetenv(c("R_DEFAULT_PACKAGES", "R_PROFILE_USER"))
  own <- Filter(file.exists, c(".Rprofile", "~/.Rprofile"))
  if (length(own)) {
    packages <- c("methods", "datasets", "utils", "grDevices", "graphics", "stats")
    for (name in packages) library(name, character.only = TRUE)
    source(own[1L])
  }
})
