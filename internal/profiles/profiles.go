// Package profiles serves what the Go runtime knows of this process, in the paths and formats that go tool pprof asks net/http/pprof for.
// That package links 120 KB to tell two profiles apart, which this one leaves to go tool pprof -base.
package profiles

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// longest bounds how long a profile over time takes.
const longest = time.Hour

// Serve answers for the profile of a name; "" lists them.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch name {
	case "":
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%d\t%s\n", p.Count(), p.Name())
		}
		fmt.Fprint(w, "\tcmdline\n\tprofile\n\tsymbol\n\ttrace\n")
	case "cmdline":
		fmt.Fprint(w, strings.Join(os.Args, "\x00"))
	case "symbol":
		symbols(w, r)
	case "profile":
		during(w, r, name, 30, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case "trace":
		during(w, r, name, 1, func() error { return trace.Start(w) }, trace.Stop)
	default:
		lookup(w, r, name)
	}
}

// lookup writes a profile as it is now.
func lookup(w http.ResponseWriter, r *http.Request, name string) {
	p := pprof.Lookup(name)
	switch {
	case p == nil:
		fail(w, http.StatusNotFound, "there is no such profile")
		return
	case r.FormValue("seconds") != "":
		// Unlike Kubernetes, what a profile gained in a time is left to go tool pprof: -base FILE takes the one before away.
		fail(w, http.StatusBadRequest, "take two profiles, and tell them apart with go tool pprof -base")
		return
	}
	if collect, _ := strconv.Atoi(r.FormValue("gc")); name == "heap" && collect > 0 {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if debug == 0 {
		binary(w, name)
	}
	_ = p.WriteTo(w, debug) // a reader that has gone does not wait for it
}

// during records from start to stop, for the seconds that are asked for or as long as the reader stays.
func during(w http.ResponseWriter, r *http.Request, name string, usual float64, start func() error, stop func()) {
	span := usual
	if s, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && s > 0 {
		span = min(s, longest.Seconds())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it takes as long as was asked for
	binary(w, name)
	if err := start(); err != nil {
		w.Header().Del("Content-Disposition")
		fail(w, http.StatusInternalServerError, "another one is being recorded: "+err.Error())
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(span * float64(time.Second))):
	case <-r.Context().Done():
	}
}

// symbols names the functions at addresses, as old versions of go tool pprof ask.
func symbols(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.RawQuery
	if r.Method == http.MethodPost {
		var body bytes.Buffer
		if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		asked = body.String()
	}
	fmt.Fprint(w, "num_symbols: 1\n")
	for word := range strings.SplitSeq(asked, "+") {
		if pc, _ := strconv.ParseUint(word, 0, 64); pc != 0 {
			if f := runtime.FuncForPC(uintptr(pc)); f != nil {
				fmt.Fprintf(w, "%#x %s\n", pc, f.Name())
			}
		}
	}
}

func binary(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

func fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Go-Pprof", "1")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
