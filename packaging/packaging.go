// Package packaging holds the files that installed copies of kloop come with: units of systemd and settings. scripts/release makes packages
// for Debian, Homebrew and krew from the same directory.
package packaging

import "embed"

// Files are units, UNIT.service, which run /usr/bin/kloop, and kloop.yaml.
//
//go:embed *.service kloop.yaml
var Files embed.FS
