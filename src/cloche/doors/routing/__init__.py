"""How requests find their routes, and the access that each route declares."""
