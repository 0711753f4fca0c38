package httpapi

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/features"
)

// Set by the linker: -X 'github.com/kloop-dev/kloop/server/http.gitVersion=v1.37.2+kloop.1'.
var (
	gitVersion = "v1.37.2+kloop"
	gitCommit  = ""
	buildDate  = "1970-01-01T00:00:00Z"
)

// major is that of all versions.
const major = "1"

// DefaultVersion is what /version says unless configured otherwise. As upstream's, it names the version that was built, and
// beside it the one that this is.
func DefaultVersion(on *features.Set) *version.Info {
	v := &version.Info{Major: major, Minor: strconv.Itoa(features.Newest), EmulationMajor: major, EmulationMinor: strconv.Itoa(on.Minor()),
		MinCompatibilityMajor: major, MinCompatibilityMinor: strconv.Itoa(on.Minor() - 1), GitVersion: gitVersion, GitCommit: gitCommit,
		GitTreeState: "clean", BuildDate: buildDate, GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if v.GitCommit == "" {
		v.GitCommit = builtFrom()
	}
	return v
}

// builtFrom is the commit that the toolchain noted in the binary.
func builtFrom() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
