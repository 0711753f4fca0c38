// Package past looks back with the commands that people type, at a whole cluster: with few rights, after a restart, and with marked
// Secrets that must be nowhere. It has nothing but tests.
package past
