package plan

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// simulate runs f where time is simulated: it begins at the given moment, moves only while every goroutine that f began waits, and an
// hour of it costs what happens in it. It returns when all goroutines have ended. What panics in f is returned as an error.
//
// The bubbles of testing/synctest are the only clock of this kind that Go has. A bubble asks nothing of its *testing.T as long as
// nobody else does; TestBubble and the test of the command hold newer versions of Go to that.
func simulate(from time.Time, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { // goroutines that f left behind
			err = fmt.Errorf("the simulation did not end: %v", p)
		}
	}()
	synctest.Test(new(testing.T), func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the simulation failed: %v\n%s", p, debug.Stack())
			}
		}()
		time.Sleep(time.Until(from)) // bubbles begin in the year 2000
		err = f()
	})
	return err
}
