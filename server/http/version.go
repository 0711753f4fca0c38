package httpapi

import (
	"runtime"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/version"
)

// Set by the linker: -X 'github.com/kloop-dev/kloop/server/http.gitVersion=v1.37.2+kloop.1'.
var (
	gitVersion = "v1.37.2+kloop"
	gitCommit  = ""
	buildDate  = "1970-01-01T00:00:00Z"
)

// The version of the API that is served. Clients parse minor as digits.
const (
	major = "1"
	minor = "37"
)

// DefaultVersion is what /version says unless configured otherwise.
func DefaultVersion() *version.Info {
	v := &version.Info{Major: major, Minor: minor, EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: "36", GitVersion: gitVersion, GitCommit: gitCommit,
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
