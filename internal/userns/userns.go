// Package userns tells the root of a machine from that of a user namespace, as rootlesskit and rootless containers have.
package userns

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// Inside says that this process is in a user namespace: what belongs to the whole machine is not its to change.
var Inside = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !everybody(string(text))
})

// everybody says that a map has all of the machine's users, each as itself.
func everybody(uidMap string) bool {
	return slices.Equal(strings.Fields(uidMap), []string{"0", "0", "4294967295"})
}
