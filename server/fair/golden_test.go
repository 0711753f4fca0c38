package fair

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/internal/golden"
)

// A counter runs the commands of testdata/decisions.txt: requests are named by their user and a number.
type counter struct {
	t     *testing.T
	f     *Fair
	mu    sync.Mutex // of those that get in
	in    map[string]Ticket
	asked map[string]context.CancelFunc
	came  chan string // what became of requests since the last command
	makes int
}

// TestDecisions plays testdata/decisions.txt in simulated time: which requests get in, wait or are refused, and in which order.
//
//	seats N [queues=N] [queue=N]   a server with N seats; without queues there is one priority level that rejects
//	ask USER [SEATS]               a request
//	leave REQUEST                  it is done; quit REQUEST: its client went away while it waited
//	pass DURATION
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{t: t, came: make(chan string, 100)}
		golden.Run(t, "testdata/decisions.txt", func(line string) string {
			c.do(append(strings.Fields(line), ""))
			synctest.Wait()
			return c.news()
		})
		c.close()
	})
}

func (c *counter) do(words []string) {
	switch arg := words[1]; words[0] {
	case "seats":
		c.close()
		s := spec{name: "g", shares: 10000, hand: 1, queue: 100}
		for _, w := range words[2:] {
			switch name, n, _ := strings.Cut(w, "="); name {
			case "queues":
				s.queues = int32(number(n))
			case "queue":
				s.queue = int32(number(n))
			}
		}
		c.f, c.in, c.asked, c.makes = newFair(number(arg), s), map[string]Ticket{}, map[string]context.CancelFunc{}, 0
	case "ask":
		c.ask(arg, max(1, number(words[2])))
	case "leave":
		c.f.Leave(c.in[arg])
		delete(c.in, arg)
	case "quit":
		c.asked[arg]()
	case "pass":
		d, err := time.ParseDuration(arg)
		if err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(d)
	default:
		c.t.Fatalf("no command %q", words)
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// ask sends a request, and tells what becomes of it.
func (c *counter) ask(user string, seats int) {
	c.makes++
	name := user + strconv.Itoa(c.makes)
	ctx, cancel := context.WithCancel(c.t.Context())
	c.asked[name] = cancel
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		ticket, err := c.f.Enter(ctx, c.f.Sort(by(user, "g"), time.Now()), seats)
		after := ""
		if d := time.Since(began); d > 0 {
			after = fmt.Sprintf(" after %v", d)
		}
		if err != nil {
			c.came <- fmt.Sprintf("%s: %v%s", name, err, after)
			return
		}
		c.mu.Lock() // several may get in at once; whoever runs commands waits until all goroutines rest
		c.in[name] = ticket
		c.mu.Unlock()
		c.came <- name + " is in" + after
	}()
	synctest.Wait()
	select {
	case <-done:
	default:
		c.came <- name + " waits"
	}
}

// news returns what became of requests, in order.
func (c *counter) news() string {
	var list []string
	for len(c.came) > 0 {
		list = append(list, <-c.came)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// close ends all requests.
func (c *counter) close() {
	for _, cancel := range c.asked {
		cancel()
	}
	synctest.Wait()
	for _, ticket := range c.in {
		c.f.Leave(ticket)
	}
	c.news()
}
