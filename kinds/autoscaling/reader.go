//go:build reader

package autoscaling

import "github.com/kloop-dev/kloop/resource"

// older are none where objects are only read: every server that is read has the version that is stored.
func older() []resource.Version[hpa] { return nil }
