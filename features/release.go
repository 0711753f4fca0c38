package features

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Release is the Kubernetes release whose libraries kloop is built with and whose behaviour it has: the one place that says so.
// "make bump RELEASE=1.38.0" changes it with the modules; TestRelease holds it against go.mod and finds other places.
const Release = "1.37.2"

// The versions that a cluster can be, by their minor: that of Release, and one before.
const (
	Newest = 37
	Oldest = 36
)

// Version is the version that programs report: the Kubernetes release, and kloop's own behind the plus, as in v1.37.2+kloop.0.1.0.
func Version() string {
	build, _ := debug.ReadBuildInfo()
	return "v" + Release + "+kloop." + own(build)
}

// own is the version of the module as the toolchain noted it, which is 0.0.0 for a build from a checkout without a tag.
func own(build *debug.BuildInfo) string {
	if build == nil || !strings.HasPrefix(build.Main.Version, "v") {
		return "0.0.0"
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(build.Main.Version, "v"), "+")
	return number
}

// Commit is the commit that the program was built from, and when that was made (RFC 3339); unknown and 1970 if the toolchain noted none.
func Commit() (revision, date string) {
	build, _ := debug.ReadBuildInfo()
	return cmp.Or(setting(build, "vcs.revision"), "unknown"), cmp.Or(setting(build, "vcs.time"), "1970-01-01T00:00:00Z")
}

func setting(build *debug.BuildInfo, key string) string {
	if build == nil {
		return ""
	}
	for _, s := range build.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
