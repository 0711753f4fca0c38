// App is what the tests run in a container.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	switch os.Args[1] {
	case "serve": // greets, echoes what comes on a port of its own and its input, and leaves when told
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		go accept(l)
		go io.Copy(os.Stdout, os.Stdin)
		fmt.Println("hello, I listen at", l.Addr())
		fmt.Fprintln(os.Stderr, "oops")
		<-stop
		fmt.Println("bye")
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, "done")
		os.Exit(3)
	}
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}
