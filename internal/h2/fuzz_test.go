package h2_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// conversation is the bytes of a client that does a bit of everything.
func conversation(f func(*http2.Framer, []byte)) []byte {
	var b, head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, h := range [][2]string{{":method", "POST"}, {":path", "/"}, {":scheme", "https"}, {":authority", "x"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	f(http2.NewFramer(&b, nil), head.Bytes())
	return b.Bytes()
}

// Whatever bytes come, the server neither panics nor hangs, and answers the next client.
func FuzzFrames(f *testing.F) {
	usual := conversation(func(fr *http2.Framer, head []byte) {
		_ = fr.WriteSettings()
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: head})
		_ = fr.WriteData(1, false, []byte("some"))
		_ = fr.WriteDataPadded(1, true, []byte("more"), make([]byte, 9))
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, EndStream: true, BlockFragment: head[:1]})
		_ = fr.WriteContinuation(3, true, head[1:])
		_ = fr.WriteWindowUpdate(3, 7)
		_ = fr.WriteRSTStream(3, http2.ErrCodeCancel)
		_ = fr.WritePing(false, [8]byte{1})
		_ = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
	})
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		b := bytes.Clone(usual)
		for range rnd.IntN(4) {
			b[rnd.IntN(len(b))] = byte(rnd.IntN(256))
		}
		f.Add(b)
	}
	f.Add(conversation(func(fr *http2.Framer, head []byte) {
		_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, EndHeaders: true, BlockFragment: head})
		_ = fr.WriteData(5, true, bytes.Repeat([]byte("long"), 100))
		_ = fr.WriteWindowUpdate(5, 1000)
		_ = fr.WritePriority(5, http2.PriorityParam{StreamDep: 5})
	}))
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	plain, lined := serve(f, bounds(), false, echo), serve(f, bounds(), true, echo)
	f.Fuzz(func(t *testing.T, said []byte) {
		w := *plain
		if len(said)%2 == 0 {
			w = *lined
		}
		w.t = t
		c, err := tls.Dial("tcp", w.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		_, _ = c.Write(append([]byte(http2.ClientPreface), said...))
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		resp := w.send(w.client(), "POST", "/", bytes.NewReader([]byte("x")))
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "x" {
			t.Errorf("the next client hears %q, %v", text, err)
		}
	})
}
