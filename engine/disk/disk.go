// Package disk has a control plane of package engine outlive its process: an embedded etcd in Config.DataDir. It stands beside engine so
// that a program that keeps all in memory is 17 MB smaller.
package disk

import (
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/member"
)

// Etcd is for engine.Config.Store.
func Etcd() member.Opener { return etcd.Opener{} }
