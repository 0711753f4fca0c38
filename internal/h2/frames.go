package h2

import (
	"encoding/binary"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

// mostSettings bounds the values in one frame of SETTINGS, as each may cost a walk over all streams.
const mostSettings = 32

// handle does what a frame says. Only the reader calls it.
func (c *conn) handle(f http2.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch f := f.(type) {
	case *http2.DataFrame:
		err = c.data(f)
	case *http2.MetaHeadersFrame:
		err = c.headers(f)
	case *http2.WindowUpdateFrame:
		err = c.widen(f)
	case *http2.RSTStreamFrame:
		err = c.cancelled(f)
	case *http2.SettingsFrame:
		err = c.settle(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.frame(http2.FramePing, http2.FlagPingAck, 0, f.Data[:])
		}
	case *http2.GoAwayFrame:
		c.goAway(http2.ErrCodeNo)
		c.rest()
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			err = http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.PushPromiseFrame:
		err = http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err == nil {
		err = c.flooded()
	}
	if err == nil {
		c.flush()
	}
	return err
}

// flooded says that a client has more answered than it takes.
func (c *conn) flooded() error {
	if len(c.out) > controlLimit {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// settle takes the client's settings. Headers that it gets never refer back to others, and frames are small, so few of them matter.
func (c *conn) settle(f *http2.SettingsFrame) error {
	if f.IsAck() {
		if c.unasked--; c.unasked < 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil
	}
	if f.NumSettings() > mostSettings {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		if s.ID != http2.SettingInitialWindowSize {
			return nil
		}
		by := int64(s.Val) - c.initial
		c.initial = int64(s.Val)
		for _, st := range c.streams {
			if st.window+by > mostWindow {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
			st.window += by
			st.room.Signal()
		}
		return nil
	})
	if err == nil {
		c.frame(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
	}
	return err
}

// widen lets more be sent.
func (c *conn) widen(f *http2.WindowUpdateFrame) error {
	by := int64(f.Increment)
	if f.StreamID == 0 {
		if c.window+by > mostWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.window += by
		c.pass()
		return nil
	}
	st, err := c.known(f.StreamID)
	if st == nil {
		return err
	}
	if st.window+by > mostWindow {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	}
	st.window += by
	st.room.Signal()
	return nil
}

// known returns the stream of the id; nil without an error if it has ended.
func (c *conn) known(id uint32) (*stream, error) {
	if st := c.streams[id]; st != nil {
		return st, nil
	}
	if id > c.last && !c.leaving || id%2 == 0 {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol) // it is yet to begin
	}
	return nil, nil
}

// cancelled ends a stream that the client no longer wants. A client that begins requests only to cancel them costs more
// than it pays, so few are free.
func (c *conn) cancelled(f *http2.RSTStreamFrame) error {
	st, err := c.known(f.StreamID)
	if st == nil {
		return err
	}
	c.drop(st, http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode})
	if !c.resets.take(time.Now()) {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// drop ends a stream before its time. It needs mu.
func (c *conn) drop(st *stream, err error) {
	st.fail(err)
	c.forget(st)
}

// forget takes the stream off the connection. It needs mu.
func (c *conn) forget(st *stream) {
	if c.streams[st.id] != st {
		return
	}
	delete(c.streams, st.id)
	c.give(len(st.body.unread()))
	st.body.discard()
	c.rest()
}

// reset ends a stream, which may not be there, and tells the client. It needs mu.
func (c *conn) reset(id uint32, code http2.ErrCode) {
	c.frame(http2.FrameRSTStream, 0, id, binary.BigEndian.AppendUint32(nil, uint32(code)))
	c.late.add(id)
	if st := c.streams[id]; st != nil {
		c.drop(st, http2.StreamError{StreamID: id, Code: code})
	}
}

// lateStreams bounds the streams that are remembered.
const lateStreams = 64

// latest are the streams that ended here last, reset or answered. What still comes for them is dropped without a word.
type latest []uint32

func (l *latest) add(id uint32) {
	if len(*l) == lateStreams {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, id)
}

// settings appends a frame of SETTINGS. It needs mu.
func (c *conn) settings(all ...http2.Setting) {
	var b []byte
	for _, s := range all {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = binary.BigEndian.AppendUint32(b, s.Val)
	}
	c.frame(http2.FrameSettings, 0, 0, b)
}

// windowUpdate lets the client send more. It needs mu.
func (c *conn) windowUpdate(id uint32, by int) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(by))
	c.frame(http2.FrameWindowUpdate, 0, id, b[:])
}

// goAway tells the client, once, that nothing it begins from now on is answered. It needs mu.
func (c *conn) goAway(code http2.ErrCode) {
	if c.leaving && code == http2.ErrCodeNo || c.err != nil {
		return
	}
	if !c.leaving {
		c.leaving, c.goneAt = true, c.last
	}
	b := binary.BigEndian.AppendUint32(nil, c.goneAt)
	c.frame(http2.FrameGoAway, 0, 0, binary.BigEndian.AppendUint32(b, uint32(code)))
}
