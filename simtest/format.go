package simtest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kloop-dev/kloop/resource/codec"
)

// A format reads and writes the events of a watch, in the media type that client and server have agreed upon.
type format struct {
	next     func(*bufio.Reader) ([]byte, error) // the next event, with what delimits it
	bookmark func(event []byte) bool             // whether an event is a bookmark
	expired  func() []byte                       // the event that says that the watch has lost its place
}

var (
	lines = &format{
		next:     func(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') },
		bookmark: func(event []byte) bool { return strings.HasPrefix(string(event), `{"type":"BOOKMARK"`) },
		expired: func() []byte {
			return []byte(`{"type":"ERROR","object":` + status(http.StatusGone, "Expired", tooOld) + "}\n")
		},
	}
	frames = &format{next: nextFrame, bookmark: isBookmark, expired: expiredFrame}
)

const (
	tooOld  = "too old resource version"
	prefix  = 4       // bytes of a frame's length
	biggest = 1 << 26 // of a frame; longer ones end the watch
)

// formatOf is the format of an answer.
func formatOf(resp *http.Response) *format {
	if strings.HasPrefix(resp.Header.Get("Content-Type"), codec.Protobuf) {
		return frames
	}
	return lines
}

func nextFrame(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(prefix)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > biggest {
		return nil, errors.New("the frame is too long")
	}
	frame := make([]byte, prefix+size)
	_, err = io.ReadFull(r, frame)
	return frame, err
}

// isBookmark looks for the type, which comes first in an event.
func isBookmark(frame []byte) bool {
	return len(frame) > prefix && strings.HasPrefix(string(frame[prefix:]), "\x0a\x08BOOKMARK")
}

func expiredFrame() []byte {
	object, err := codec.MarshalProto(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Message: tooOld, Reason: metav1.StatusReasonExpired, Code: http.StatusGone})
	if err != nil {
		return nil
	}
	event, err := (&metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}
