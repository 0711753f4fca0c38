package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A question is a message without its number, and the answer that is right: so many records, or none of such a name.
type question struct {
	msg     []byte
	answers uint16
	rcode   byte
}

const (
	typeA   = 1
	typeSRV = 33
	noName  = 3
)

func ask(name string, typ, answers uint16, rcode byte) question {
	msg := []byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1}
	for label := range strings.SplitSeq(name, ".") {
		msg = append(append(msg, byte(len(label))), label...)
	}
	msg = binary.BigEndian.AppendUint16(append(msg, 0), typ)
	msg = append(msg, 0, 1)
	return question{append(msg, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0), answers, rcode} // EDNS of 1,232 bytes
}

// put asks once and returns the answer, in buf.
func put(c net.Conn, msg []byte, id uint16, buf []byte) ([]byte, error) {
	binary.BigEndian.PutUint16(msg, id)
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.Write(msg); err != nil {
		return nil, err
	}
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		if n >= 12 && binary.BigEndian.Uint16(buf) == id {
			return buf[:n], nil
		}
	}
}

// right compares an answer with the one that is expected.
func (q question) right(answer []byte) bool {
	return len(answer) >= 12 && answer[3]&15 == q.rcode && binary.BigEndian.Uint16(answer[6:]) == q.answers
}

// serves waits until a server answers every question right.
func (s *server) serves(ctx context.Context, w *world) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := net.Dial("udp", s.at)
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 4096)
	for _, q := range w.questions {
		for {
			answer, err := put(c, bytes.Clone(q.msg), 1, buf)
			if q.right(answer) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s does not answer %q as it should: %v", s.name, q.msg, errors.Join(err, ctx.Err()))
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// turn asks from many sockets, for a time.
func (s *server) turn(ctx context.Context, o options, w *world) error {
	var asked atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, o.clients)
	before, began := used(s.cmd.Process.Pid), time.Now()
	until := began.Add(o.asking)
	for i := range o.clients {
		all.Go(func() { errs <- s.ask(ctx, w, i*7919, until, &asked) })
	}
	all.Wait()
	for range o.clients {
		if err := <-errs; err != nil {
			return err
		}
	}
	n := float64(asked.Load())
	s.perSecond = append(s.perSecond, n/time.Since(began).Seconds())
	s.perQuestion = append(s.perQuestion, (used(s.cmd.Process.Pid)-before)/n*1e6)
	return nil
}

func (s *server) ask(ctx context.Context, w *world, from int, until time.Time, asked *atomic.Int64) error {
	c, err := net.Dial("udp", s.at)
	if err != nil {
		return err
	}
	defer c.Close()
	buf, msg := make([]byte, 4096), []byte(nil)
	for i := from; time.Now().Before(until) && ctx.Err() == nil; i++ {
		q := w.questions[i%len(w.questions)]
		msg = append(msg[:0], q.msg...)
		answer, err := put(c, msg, uint16(i), buf)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if !q.right(answer) {
			return fmt.Errorf("%s answers %q wrong", s.name, q.msg)
		}
		asked.Add(1)
	}
	return nil
}

// used is the processor time of a process in seconds, from the nanoseconds of its threads.
func used(pid int) (sum float64) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		data, _ := os.ReadFile(dir + "/" + e.Name() + "/schedstat")
		if f := strings.Fields(string(data)); len(f) > 0 {
			n, _ := strconv.ParseFloat(f[0], 64)
			sum += n / 1e9
		}
	}
	return sum
}

// private is the anonymous memory of a process in MiB: what it takes beside the pages of its program file.
func private(pid int) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n / 1024
		}
	}
	return 0
}
