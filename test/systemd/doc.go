// Package systemd tests kloop on a machine whose first process is systemd: as a service that is installed, upgraded and taken away, while
// the container of a pod runs on. The machine is a guest of package vm.
package systemd
