package memory

import (
	"context"
	"strings"

	"github.com/kloop-dev/kloop/store"
)

// maxBatch bounds the revisions that are looked at under the lock at once.
const maxBatch = 4096

// Watch implements store.Store. Events carry Prev. A watch that falls behind the history ends with
// store.ErrCompacted.
func (s *Store) Watch(ctx context.Context, prefix string, after int64, f func(store.Batch) error) error {
	for {
		if ctx.Err() != nil {
			return nil
		}
		batch, changed, err := s.since(prefix, after)
		if err != nil {
			return err
		}
		if batch.Rev > after {
			if err := f(batch); err != nil {
				return err
			}
			after = batch.Rev
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.done:
		case <-changed:
		}
	}
}

// since collects the events after a revision. The channel is closed when there are newer ones.
func (s *Store) since(prefix string, after int64) (store.Batch, <-chan struct{}, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return store.Batch{}, nil, err
	}
	after = max(after, 1) // nothing was ever written at revision 1
	if after < s.history.compacted {
		return store.Batch{}, nil, s.tooOld("watch "+prefix, after)
	}
	batch := store.Batch{Rev: min(s.rev, after+maxBatch)}
	for rev := after + 1; rev <= batch.Rev; rev++ {
		if e := s.history.event(rev); strings.HasPrefix(e.Key, prefix) {
			batch.Events = append(batch.Events, e)
		}
	}
	return batch, s.changed, nil
}
