package httpapi

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
)

const (
	debugFlags = "/debug/flags"
	maxFlag    = 64 // bytes of a flag's value
)

// flags answers /debug/flags: a page that lists the flags that can be changed while the server runs, and the one that there is, v.
func (s *handler) flags(w http.ResponseWriter, r *http.Request, path string) {
	switch {
	case s.cfg.Verbosity == nil:
		s.extra(w, r, path)
	case path == debugFlags+"/v":
		s.verbosity(w, r)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<html>\n<head>\n<title>%s/</title>\n</head>\n<body>\n%s/<br>\n<br>\nflags:<br>\n<table>\n"+
			"<tr>%s<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n", debugFlags, debugFlags, html.EscapeString("v"))
	}
}

// verbosity sets how much is logged; other methods than PUT get upstream's answer.
func (s *handler) verbosity(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		plain(w, http.StatusNotAcceptable, "unsupported http method")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFlag))
	if err != nil {
		plain(w, http.StatusBadRequest, "error reading request body: "+err.Error())
		return
	}
	n, err := strconv.ParseInt(string(body), 10, 32)
	if err != nil {
		plain(w, http.StatusBadRequest, fmt.Sprintf("failed set klog.logging.verbosity %s: %v", body, err))
		return
	}
	s.cfg.Verbosity(int(n))
	plain(w, http.StatusOK, fmt.Sprintf("successfully set klog.logging.verbosity to %s", body))
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text)
}
