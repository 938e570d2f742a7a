"""The files of the page, as browsers get them."""
