package simtest

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets a short run, as under the race detector, try a tenth of the seeds.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() && *seedsFlag == 0 {
		*seedsFlag = 20
	}
	os.Exit(m.Run())
}
