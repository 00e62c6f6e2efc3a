// Forwards ports as a kubelet does, with the kubelet's own code, to processes of this machine: `port-forward LISTEN POD=PORT…`.
//
// It lists its pods as an API server would.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
)

// The port of each pod, whichever is asked for.
type pods map[string]string

func (p pods) PortForward(_ context.Context, pod string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	target, known := p[pod]
	if !known || port != 2379 {
		return fmt.Errorf("error forwarding port %d to pod %s: connection refused", port, pod)
	}
	connection, err := net.Dial("tcp", "127.0.0.1:"+target)
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

func (p pods) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	words := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(words) == 7 && words[6] == "portforward" {
		protocols := []string{portforward.ProtocolV1Name}
		portforward.ServePortForward(w, request, p, words[5], "", &portforward.V4Options{}, time.Minute, 10*time.Second, protocols)
		return
	}
	items := []any{}
	for name := range p {
		items = append(items, map[string]any{"metadata": map[string]any{"name": name, "namespace": "kube-system"}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": items})
}

func main() {
	served := pods{}
	for _, argument := range os.Args[2:] {
		pod, port, _ := strings.Cut(argument, "=")
		served[pod] = port
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], served))
}
