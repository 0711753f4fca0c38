package httpapi

import (
	"runtime"
	"strconv"

	"k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/features"
)

// major is that of all versions.
const major = "1"

// DefaultVersion is the answer of /version unless configured otherwise. As upstream's, it names the version that was built, and
// beside it the one that this is.
func DefaultVersion(on *features.Set) *version.Info {
	commit, date := features.Commit()
	return &version.Info{Major: major, Minor: strconv.Itoa(features.Newest), EmulationMajor: major, EmulationMinor: strconv.Itoa(on.Minor()),
		MinCompatibilityMajor: major, MinCompatibilityMinor: strconv.Itoa(on.Minor() - 1), GitVersion: features.Version(), GitCommit: commit,
		GitTreeState: "clean", BuildDate: date, GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
}
