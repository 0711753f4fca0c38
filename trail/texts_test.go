package trail

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// Texts of one write after the other lie in few pieces of memory, and none of them changes when more come.
func TestTexts(t *testing.T) {
	var kept texts
	var all []Write
	for i := range 1000 {
		w := Write{Ref: Ref{Resource: strings.Clone("configmaps"), Name: fmt.Sprintf("map-%d", i)}, UID: fmt.Sprintf("uid-%d", i),
			Agent: strings.Clone("kubectl/v1"), What: strings.Repeat("x", i%7*1000)}
		kept.take(&w)
		all = append(all, w)
	}
	chunks := map[uintptr]bool{}
	for i, w := range all {
		want := Write{Ref: Ref{Resource: "configmaps", Name: fmt.Sprintf("map-%d", i)}, UID: fmt.Sprintf("uid-%d", i),
			Agent: "kubectl/v1", What: strings.Repeat("x", i%7*1000)}
		if w != want {
			t.Fatalf("write %d is %+v, want %+v", i, w, want)
		}
		chunks[uintptr(unsafe.Pointer(unsafe.StringData(w.Name)))/textChunk] = true
	}
	if a, b := unsafe.StringData(all[0].Agent), unsafe.StringData(all[999].Agent); a != b {
		t.Error("what all writes say is kept more than once")
	}
	if total := 3000*1000 + 20*1000; len(chunks) > 2*total/textChunk {
		t.Errorf("names lie in %d places", len(chunks))
	}
	var long texts
	if s := strings.Repeat("y", 3*textChunk); long.keep(s) != s || long.keep("z") != "z" {
		t.Error("a long text is not kept")
	}
}
