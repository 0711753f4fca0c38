package etcd

import "testing"

func TestSaysProgressRight(t *testing.T) {
	for version, want := range map[string]bool{"3.3.27": false, "3.4.23": false, "3.4.31": true, "3.5.0": false, "3.5.12": false,
		"3.5.13":     true,
		"3.6.0-rc.1": true, "3.7.3": true, "4.0.0": true, "": false, "new": false} {
		t.Run(version, func(t *testing.T) {
			if got := saysProgressRight(version); got != want {
				t.Errorf("%q: %t", version, got)
			}
		})
	}
}
