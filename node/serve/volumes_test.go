package serve

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/node/csi"
)

// TestVolumeOf has volumes in the form that readers of the summary know.
func TestVolumeOf(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	got, err := json.Marshal(volumeOf(csi.Usage{Volume: "data", Namespace: "ns", Claim: "c", At: at, Used: 1, Free: 2, Size: 3, Inodes: 9}))
	const want = `{"name":"data","time":"1970-01-01T00:00:00Z","availableBytes":2,"capacityBytes":3,"usedBytes":1,"inodesFree":0,"inodes":9,` +
		`"inodesUsed":0,"pvcRef":{"name":"c","namespace":"ns"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
