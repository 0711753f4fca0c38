package cluster

import "github.com/kloop-dev/kloop/strict"

// Meant is the end of an error message about a word that is not known: see strict.Meant.
func Meant(word string, known []string) string { return strict.Meant(word, known) }
