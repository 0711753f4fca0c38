package etcd

import (
	"context"
	"fmt"
)

// tellsProgress says whether the members of the cluster can be believed when they are asked how far a watch is complete.
// Before 3.4.31 and 3.5.13 a member names the newest revision even to a watch that it has not told all events of yet
// (https://github.com/etcd-io/etcd/issues/15220; Kubernetes wants the same versions). What a watch of such a cluster waits
// for comes with the next write: each server renews its address there every ten seconds.
//
// It does not wait: as long as not all members have answered, which are asked meanwhile, the answer is no.
func (s *Store) tellsProgress() bool {
	if known := s.progress.Load(); known != nil {
		return *known
	}
	if s.asking.CompareAndSwap(false, true) {
		if s.enter(s.ctx) != nil {
			return false
		}
		go func() {
			defer s.inflight.Done()
			defer s.asking.Store(false)
			s.askVersions()
		}()
	}
	return false
}

// askVersions asks every member for its version. It notes nothing if one does not answer: that may be an old one.
func (s *Store) askVersions() {
	all := true
	for _, at := range s.client.Endpoints() {
		ctx, cancel := context.WithTimeout(s.ctx, quiet)
		status, err := s.client.Status(ctx, at)
		cancel()
		if err != nil {
			return
		}
		all = all && saysProgressRight(status.Version)
	}
	s.progress.Store(&all)
}

// saysProgressRight judges a version of etcd, as 3.5.13; what can't be read is an old one.
func saysProgressRight(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return false
	}
	switch {
	case major == 3 && minor == 4:
		return patch >= 31
	case major == 3 && minor == 5:
		return patch >= 13
	}
	return major > 3 || major == 3 && minor > 5
}
