package view

// Stats says what a view holds beside the state itself.
type Stats struct {
	Objects   int
	Changes   int   // in the history
	Replaced  int64 // bytes of replaced objects that the history holds, as stored
	Encodings int64 // bytes
	Offers    int   // that wait for their write
	Retained  int   // snapshots
	Unknown   int   // values of no known kind
	Broken    int   // values that do not decode
}

// Stats counts.
func (v *View) Stats() (s Stats) {
	v.feed.Lock()
	for _, r := range v.hidden.byKey {
		if r.err != nil {
			s.Broken++
		} else {
			s.Unknown++
		}
	}
	v.feed.Unlock()
	v.mu.Lock()
	for _, t := range v.tables {
		s.Objects += t.objects.Len()
	}
	s.Changes, s.Replaced = v.history.len(), v.history.weight
	s.Retained = len(v.retained.list)
	v.mu.Unlock()
	v.encoded.mu.Lock()
	s.Encodings = v.encoded.used
	v.encoded.mu.Unlock()
	v.offers.mu.Lock()
	for _, list := range v.offers.byKey {
		s.Offers += len(list)
	}
	v.offers.mu.Unlock()
	return s
}
