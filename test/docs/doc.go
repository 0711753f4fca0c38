// Package docs runs the commands in the README and in the pages for new people, docs/start: a command that fails there fails here. Blocks
// marked sh are run in the order of the page, by one shell; those marked sh root only where real containers can be had.
package docs
