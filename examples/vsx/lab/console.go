package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxFor bounds how long a fault may be asked for.
const maxFor = 24 * time.Hour

// Console takes faults and shows what the switches' consoles would. Switches are 1 and 2.
//
//	GET  /show/1/vsx-status        as `show vsx status` prints it
//	GET  /show/writes              what was written over the API
//	GET  /show/faults              which rules an operator broke
//	POST /fault/1/reboot           also power-off, power-on, read-only, read-write, logout
//	POST /fault/cut?port=1/1/55    also mend; both are of the cable between the ports of that name
//	POST /fault/slow?by=60s        has the ISL take that much longer
//	POST /cli/1?path=system/interfaces/lag256&attribute=admin   with a value in JSON: a person changes something
func (l *Lab) Console() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /show/{what}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("what") {
		case "writes":
			fmt.Fprintln(w, strings.Join(l.Writes(), "\n"))
		case "faults":
			fmt.Fprintln(w, strings.Join(l.Faults(), "\n"))
		default:
			http.NotFound(w, r)
		}
	})
	mux.HandleFunc("GET /show/{switch}/vsx-status", l.of(func(s *Switch, w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, s.ShowVSXStatus())
	}))
	mux.HandleFunc("POST /fault/{switch}/{what}", l.of(func(s *Switch, w http.ResponseWriter, r *http.Request) {
		do, ok := map[string]func(){"reboot": s.Reboot, "power-off": func() { s.Power(false) }, "power-on": func() { s.Power(true) },
			"read-only": func() { s.ReadOnly(true) }, "read-write": func() { s.ReadOnly(false) }, "logout": s.Logout}[r.PathValue("what")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		do()
	}))
	mux.HandleFunc("POST /fault/{what}", l.cable)
	mux.HandleFunc("POST /cli/{switch}", l.of(func(s *Switch, w http.ResponseWriter, r *http.Request) {
		var v any
		q := r.URL.Query()
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&v); err != nil || refers[q.Get("attribute")] != "" {
			http.Error(w, "a value in JSON is wanted, of an attribute that is no reference", http.StatusBadRequest)
			return
		}
		s.CLI(q.Get("path"), q.Get("attribute"), v)
	}))
	return mux
}

// cable does what is done to what lies between the switches.
func (l *Lab) cable(w http.ResponseWriter, r *http.Request) {
	switch q := r.URL.Query(); r.PathValue("what") {
	case "cut":
		l.Cut(q.Get("port"), true)
	case "mend":
		l.Cut(q.Get("port"), false)
	case "slow":
		by, err := time.ParseDuration(q.Get("by"))
		if err != nil || by < 0 || by > maxFor {
			http.Error(w, "by=60s", http.StatusBadRequest)
			return
		}
		l.Slow(by)
	default:
		http.NotFound(w, r)
	}
}

// of finds the switch that a path names.
func (l *Lab) of(do func(*Switch, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("switch") {
		case "1":
			do(l.Switch(0), w, r)
		case "2":
			do(l.Switch(1), w, r)
		default:
			http.NotFound(w, r)
		}
	}
}
