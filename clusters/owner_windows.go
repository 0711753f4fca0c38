package clusters

import "io/fs"

// own changes nothing: who writes a kubeconfig is its owner.
func own(fs.FileInfo, string, string) error { return nil }

// homeOf is not known: nobody becomes another user as sudo does.
func homeOf(int) string { return "" }
