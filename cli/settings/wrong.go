package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/strict"
)

// Blame says of an error of configuration which settings it is about, and where those came from. check is the one that failed; nil: it
// can't be asked again.
func (s *Sheet) Blame(err error, check func() error) error {
	var wrong strict.Wrong
	if !errors.As(err, &wrong) {
		return err
	}
	from := s.guilty(err, check)
	if len(from) == 0 {
		from = s.named(err)
	}
	if len(from) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(from, ", "), err)
}

// guilty lists the sources of the settings without each of which the check would say something else.
func (s *Sheet) guilty(err error, check func() error) (from []string) {
	for i := range s.list {
		t := &s.list[i]
		if t.from == "" || check == nil {
			continue
		}
		now := t.text()
		if t.set(t.was) != nil {
			continue
		}
		if other := check(); other == nil || other.Error() != err.Error() {
			from = append(from, t.from)
		}
		_ = t.set(now) // it was taken before
	}
	return from
}

// named lists the sources of the settings whose values stand in the error: files above all.
func (s *Sheet) named(err error) (from []string) {
	for i := range s.list {
		t := &s.list[i]
		mentioned := func(v string) bool { return v != "" && strings.Contains(err.Error(), v) }
		if t.from != "" && t.shape() != truth && slices.ContainsFunc(append(split(t.text()), t.text()), mentioned) {
			from = append(from, t.from)
		}
	}
	return from
}
