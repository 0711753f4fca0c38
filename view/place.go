package view

// Passed says whether the cursor has handed out the change, or skipped it.
func (c *Cursor) Passed(x *Change) bool { return x.seq <= c.seq }

// Behind says whether c lacks changes that other, a cursor of the same view and kinds, has handed out, or waits for a revision
// that is still to come.
func (c *Cursor) Behind(other *Cursor) bool { return c.seq < other.seq || c.after != 0 || c.err != nil }

// Follow moves c to where other is, a cursor of the same view and kinds, unless it is there already: what lies between is handed
// out by other alone.
func (c *Cursor) Follow(other *Cursor) {
	if c.seq < other.seq {
		c.seq, c.rev = other.seq, max(c.rev, other.rev)
	}
}
