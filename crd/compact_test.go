package crd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"github.com/kloop-dev/kloop/resource"
)

// packedDatabases makes objects of a kind as many as are asked for.
func packedDatabases(t testing.TB, k *Kind, n int) (objs []resource.Object, texts []string) {
	t.Helper()
	for i := range n {
		text := strings.ReplaceAll(oneLine(database), "database-00001", fmt.Sprintf("database-%d", i))
		s := pack(t, k, text, int64(100+i))
		objs, texts = append(objs, s), append(texts, string(s.EncodedJSON(nil)))
	}
	return objs, texts
}

// blocks are those in which the texts of objects lie.
func blocks(objs []resource.Object) map[*textBlock]bool {
	in := map[*textBlock]bool{}
	for _, o := range objs {
		in[o.(*Stored).at.Load().in] = true
	}
	return in
}

func checkTexts(t *testing.T, objs []resource.Object, texts []string) {
	t.Helper()
	var room []byte
	for i, o := range objs {
		s := o.(*Stored)
		if got := string(s.EncodedJSON(nil)); got != texts[i] {
			t.Fatalf("object %d is\n%s\nwant\n%s", i, got, texts[i])
		}
		if got := string(s.EncodedJSON(&room)); got != texts[i] || s.GetName() != resource.Opened(s).GetName() {
			t.Fatalf("object %d is\n%s\nwant\n%s", i, got, texts[i])
		}
	}
}

// Many objects take a fraction of the memory, and say what they said.
func TestCompact(t *testing.T) {
	k := databaseKind(t)
	objs, texts := packedDatabases(t, k, 3000)
	k.Compact(objs)
	checkTexts(t, objs, texts)
	size, wire := 0, 0
	first := blocks(objs)
	for b := range first {
		size += len(b.data)
	}
	for _, text := range texts {
		wire += len(text)
	}
	if size > wire/3 {
		t.Errorf("%d bytes of texts take %d", wire, size)
	}
	// What lies well stays there, though more objects come.
	more, moreTexts := packedDatabases(t, k, 200)
	all, allTexts := append(objs, more...), append(texts, moreTexts...)
	k.Compact(all)
	checkTexts(t, all, allTexts)
	for b := range blocks(objs) {
		if !first[b] {
			t.Fatal("texts moved that lay well")
		}
	}
	// When most of a block is gone, the rest moves out of it.
	var left []resource.Object
	var leftTexts []string
	for i := 0; i < len(objs); i += 5 {
		left, leftTexts = append(left, objs[i]), append(leftTexts, texts[i])
	}
	k.Compact(left)
	checkTexts(t, left, leftTexts)
	for b := range blocks(left) {
		if first[b] {
			t.Error("a block is kept by a few texts")
		}
	}
}

// Few objects are not worth it, nor do large ones leave holes.
func TestCompactLeavesOthers(t *testing.T) {
	k := databaseKind(t)
	objs, texts := packedDatabases(t, k, 3)
	large := strings.Replace(oneLine(database), "database-00001", "large", 1)
	large = strings.Replace(large, `"metadata":{`, `"metadata":{"annotations":{"a":"`+strings.Repeat("x", maxModel)+`"},`, 1)
	s := pack(t, k, large, 1)
	objs, texts = append(objs, s, newDatabase(t, k)), append(texts, string(s.EncodedJSON(nil)))
	k.Compact(objs)
	checkTexts(t, objs[:4], texts)
	if len(blocks(objs[:4])) != 4 {
		t.Error("texts moved without need")
	}
	k.Compact(nil)
}

// Readers see the same while texts move.
func TestCompactWhileRead(t *testing.T) {
	k := databaseKind(t)
	objs, texts := packedDatabases(t, k, 300)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 5 {
				for i, o := range objs {
					if string(o.(*Stored).EncodedJSON(nil)) != texts[i] || o.GetResourceVersion() != fmt.Sprint(100+i) {
						t.Errorf("object %d changed", i)
						return
					}
				}
			}
		})
		wg.Go(func() { k.Compact(objs) })
	}
	wg.Wait()
	checkTexts(t, objs, texts)
}

// What was read of an object does not hold the rest of its text.
func TestStoredLetsGo(t *testing.T) {
	k := databaseKind(t)
	objs, _ := packedDatabases(t, k, 300)
	s := objs[7].(*Stored)
	text := weak.Make(unsafe.StringData(s.at.Load().in.data))
	name, ns, uid, labels, notes := s.GetName(), s.GetNamespace(), s.GetUID(), maps.Clone(s.GetLabels()), s.GetAnnotations()
	k.Compact(objs)
	for range 5 {
		runtime.GC()
	}
	if text.Value() != nil {
		t.Error("the text is still there")
	}
	runtime.KeepAlive([]any{name, ns, uid, labels, notes})
	runtime.KeepAlive(objs)
}

// Texts that differ from a model in any way come back as they were.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	piece := func() string {
		b := make([]byte, r.IntN(60))
		for i := range b {
			b[i] = "abc\"{}:,01"[r.IntN(1+r.IntN(10))]
		}
		return string(b)
	}
	var s deltaEncoder
	for range 3000 {
		var model, text strings.Builder
		for range 1 + r.IntN(30) {
			p := piece()
			if model.WriteString(p); r.IntN(4) == 0 {
				p = piece() // another one, or none
			}
			text.WriteString(p)
		}
		s.learn(model.String())
		packed := string(s.pack(nil, text.String()))
		if got := string(unpack(nil, packed, model.String(), text.Len())); got != text.String() {
			t.Fatalf("%q in terms of %q became %q", text.String(), model.String(), got)
		}
	}
}

func FuzzPack(f *testing.F) {
	f.Add(oneLine(database), strings.Replace(oneLine(database), "database", "d", 2))
	f.Add("abcdefghijklmnop", "xxabcdefghijklmnopyyefghijklmnop")
	f.Add("0000000000000000", "0000")
	f.Fuzz(func(t *testing.T, model, text string) {
		if len(model) > maxModel || len(text) > maxModel || text == "" {
			return
		}
		var s deltaEncoder
		s.learn(model)
		packed := string(s.pack(nil, text))
		if got := string(unpack([]byte("before"), packed, model, len(text))); got != "before"+text {
			t.Errorf("%q in terms of %q became %q", text, model, got)
		}
	})
}

func BenchmarkPacked(b *testing.B) {
	k := databaseKind(b)
	objs, _ := packedDatabases(b, k, 2000)
	k.Compact(objs)
	s := objs[1234].(*Stored)
	var room []byte
	b.Run("pack", func(b *testing.B) {
		var sh deltaEncoder
		sh.learn(string(objs[0].(*Stored).EncodedJSON(nil)))
		text := string(s.EncodedJSON(nil))
		for b.Loop() {
			room = sh.pack(room[:0], text)
		}
		b.ReportMetric(float64(len(room))/float64(len(text)), "of-text")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			s.EncodedJSON(&room)
		}
		b.SetBytes(int64(len(room)))
	})
	b.Run("name", func(b *testing.B) {
		for b.Loop() {
			s.GetName()
		}
	})
}
