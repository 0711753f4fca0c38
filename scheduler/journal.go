package scheduler

// A journal lists the nodes that changed, oldest first, so that what is cached per node looks at those alone.
type journal struct {
	changed []int32
	first   int64 // the number of the oldest entry
}

// maxJournal bounds the journal; verdicts that are further behind start anew.
const maxJournal = 1 << 15

func (j *journal) add(node int) {
	if len(j.changed) >= maxJournal {
		half := len(j.changed) / 2
		j.changed = append(j.changed[:0], j.changed[half:]...)
		j.first += int64(half)
	}
	j.changed = append(j.changed, int32(node))
}

// next is the number of the next change.
func (j *journal) next() int64 { return j.first + int64(len(j.changed)) }

// since returns the nodes that changed from a number on; false: they are too many to look at one by one, or no longer known.
func (j *journal) since(number int64, nodes int) ([]int32, bool) {
	if number < j.first || int(j.next()-number) > nodes {
		return nil, false
	}
	return j.changed[number-j.first:], true
}
