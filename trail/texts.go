package trail

import "strings"

// textChunk is the number of bytes of texts that lie together. All of them go when the last write among them does.
const textChunk = 16 << 10

// texts keeps the texts of writes that follow each other side by side. Where they were made they lie among what each request leaves
// behind, and a few bytes that stay would keep a page of the heap from being given back.
type texts struct {
	chunk strings.Builder
	last  Write
}

// take has w own its texts. A text that the write before had is not kept twice.
func (t *texts) take(w *Write) {
	for _, f := range []struct{ now, last *string }{
		{&w.Resource, &t.last.Resource}, {&w.Namespace, &t.last.Namespace}, {&w.Name, &t.last.Name}, {&w.What, &t.last.What},
		{&w.UID, &t.last.UID}, {&w.OwnerKind, &t.last.OwnerKind}, {&w.OwnerName, &t.last.OwnerName},
		{&w.User, &t.last.User}, {&w.Manager, &t.last.Manager}, {&w.Agent, &t.last.Agent},
	} {
		if *f.now == *f.last {
			*f.now = *f.last
			continue
		}
		*f.now = t.keep(*f.now)
	}
	t.last = *w
}

func (t *texts) keep(s string) string {
	if t.chunk.Cap()-t.chunk.Len() < len(s) {
		t.chunk = strings.Builder{}
		t.chunk.Grow(max(textChunk, len(s)))
	}
	from := t.chunk.Len()
	t.chunk.WriteString(s)
	return t.chunk.String()[from:]
}
