package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processes are the server's.
type processes []int

// ticks is the number of clock ticks of /proc in a second. Linux says 100 on every platform that Go knows.
const ticks = 100

// cpu returns the processors' time that the processes have used so far, in seconds, user and system together.
func (p processes) cpu() float64 {
	sum := 0.0
	for _, pid := range p {
		sum += schedule(pid)
	}
	return sum
}

// schedule reads the nanoseconds of every thread, which the tick counts of stat are too coarse for. Threads that
// ended are missing there; then stat knows better.
func schedule(pid int) float64 {
	var ns float64
	dir := fmt.Sprintf("/proc/%d/task", pid)
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		data, err := os.ReadFile(dir + "/" + e.Name() + "/schedstat")
		if err != nil {
			continue
		}
		if f := bytes.Fields(data); len(f) > 0 {
			n, _ := strconv.ParseFloat(string(f[0]), 64)
			ns += n
		}
	}
	return max(ns/1e9, stat(pid))
}

func stat(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(after)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / ticks
}

// memory returns the memory of the processes now, in MiB: resident in all, and the part that is their own and not pages of
// the program file.
func (p processes) memory() (resident, own float64) {
	for _, pid := range p {
		f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			name, rest, _ := strings.Cut(sc.Text(), ":")
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			switch name {
			case "VmRSS":
				resident += kib / 1024
			case "RssAnon":
				own += kib / 1024
			}
		}
		f.Close()
	}
	return resident, own
}

// load is the machine's load average.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
