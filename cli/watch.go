package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/cli/live"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// Bounds of what kloop watch asks and draws.
const (
	gapsEvery = 2 * time.Second        // gaps are asked for no more often
	drawEvery = 500 * time.Millisecond // a frame is drawn no more often
	plainWide = 160                    // columns, and rows below, where there is no terminal
	plainHigh = 200
)

// watch shows the whole cluster until q is pressed; without a terminal it prints one frame.
func watch(ctx context.Context, std stdio, args []string) error {
	var where ask.Flags
	fs := flags(std, "watch", "")
	where.Bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	a, err := where.Connect()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var sources []client.Source
	for _, k := range live.Kinds {
		s := client.Source{Kind: k}
		if k.Info().Namespaced {
			s.Namespace = a.NS
		}
		sources = append(sources, s)
	}
	c, err := client.NewRemote(a.Rest, kinds.NewSet(), "kloop-watch", sources...)
	if err != nil {
		return err
	}
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.Run(ctx, func() { close(synced) }) }()
	select {
	case <-synced:
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("reach the server: %w", ctx.Err())
	}
	b := &board{asker: a, cluster: c}
	screen, ok := std.out.(*os.File)
	if !ok || !term.IsTerminal(int(screen.Fd())) {
		b.ask(ctx)
		return printFrame(std.out, b.frame(live.Look{Width: plainWide, Height: plainHigh}))
	}
	return b.show(ctx, std.in, screen)
}

// printFrame prints a frame without what fills the screen.
func printFrame(w io.Writer, lines []string) error {
	for _, l := range lines[:len(lines)-1] {
		if l == "" {
			continue
		}
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}

// A board holds what it knows of the cluster.
type board struct {
	asker   *ask.Asker
	cluster *client.Remote

	mu    sync.Mutex
	state live.State
}

// ask asks for the gaps.
func (b *board) ask(ctx context.Context) {
	answer, err := b.asker.All(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Trouble = ""; err != nil {
		b.state.Trouble = err.Error()
		return
	}
	b.state.Gaps = answer.Items
}

func (b *board) frame(l live.Look) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Title, b.state.At = b.asker.Rest.Host, b.asker.Now()
	b.state.Gather(b.cluster.Read(), b.asker.NS)
	return live.Frame(&b.state, l)
}

// keepAsking asks for the gaps again and again, until ctx ends.
func (b *board) keepAsking(ctx context.Context) {
	for ctx.Err() == nil {
		b.ask(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(gapsEvery):
		}
	}
}

// show draws until q is pressed. What did not change is not sent again: the way may be long.
func (b *board) show(ctx context.Context, in io.Reader, screen *os.File) error {
	if f, ok := in.(*os.File); ok {
		if before, err := term.MakeRaw(int(f.Fd())); err == nil {
			defer func() { _ = term.Restore(int(f.Fd()), before) }()
		}
	}
	fmt.Fprint(screen, "\x1b[?1049h\x1b[?25l")
	defer fmt.Fprint(screen, "\x1b[?25h\x1b[?1049l")
	go b.keepAsking(ctx)
	keys := make(chan byte)
	go readKeys(ctx, in, keys)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	var look live.Look
	for last := ""; ; {
		if w, h, err := term.GetSize(int(screen.Fd())); err == nil {
			look.Width, look.Height = w, h
		}
		if text := strings.Join(b.frame(look), "\x1b[K\r\n"); text != last {
			if _, err := fmt.Fprint(screen, "\x1b[H"+text+"\x1b[K\x1b[J"); err != nil {
				return err
			}
			last = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case k, ok := <-keys:
			var quit bool
			if look, quit = look.Press(k); quit || !ok {
				return nil
			}
		}
	}
}

// readKeys hands out what is typed; its last read ends with the process.
func readKeys(ctx context.Context, in io.Reader, to chan<- byte) {
	defer close(to)
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(in, one); err != nil {
			return
		}
		select {
		case to <- one[0]:
		case <-ctx.Done():
			return
		}
	}
}
