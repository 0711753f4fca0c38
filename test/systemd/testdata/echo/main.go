// Echo runs in containers of tests. Without arguments it serves HTTP at port 8080 and says its own name and who asks; with a URL and
// names it asks until each of the names has answered.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 1 {
		serve()
	}
	missing := map[string]bool{}
	for _, name := range os.Args[2:] {
		missing[name] = true
	}
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for try := 0; len(missing) > 0; try++ {
		if try == 60 {
			fmt.Println("no answer of", missing)
			os.Exit(1)
		}
		answer, err := c.Get(os.Args[1])
		if err != nil {
			fmt.Println(err)
			time.Sleep(time.Second)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
		_ = answer.Body.Close() // all of it was read
		fmt.Printf("%s, %v\n", text, err)
		name, _, _ := strings.Cut(string(text), " ")
		delete(missing, name)
	}
}

func serve() {
	name, err := os.Hostname()
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s for %s", name, from)
	})))
	os.Exit(1)
}
