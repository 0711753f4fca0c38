//go:build linux

package volume

import (
	"testing"

	"github.com/kloop-dev/kloop/test/vm"
)

// TestDeviceGrowsInGuest is TestDeviceGrows where root may enlarge a mounted file system, which it may not in many containers.
func TestDeviceGrowsInGuest(t *testing.T) {
	tools := []string{"losetup", "blkid", "mkfs.ext4", "mkswap", "fsck", "fsck.ext4", "resize2fs", "mount"}
	if vm.Run(t, vm.Config{Modules: []string{"loop", "ext4"}, Programs: tools}) {
		deviceGrows(t)
	}
}
