// Package script runs unmodified kubectl against clusters in this process, one of simulated nodes for every file
// of testdata. Each file is a transcript: commands and what they must print.
package script
