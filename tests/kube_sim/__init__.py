"""A simulated Kubernetes cluster for tests: an API server (here), and what works on it (controllers, kubelets).

    store = Store()
    with serving(store) as server:
        write_kubeconfig(path, server.url)

`Store` is the truth and has no sockets; `serving` puts HTTP on loopback before it; `python -m kube_sim.serve` does
so in a process of its own. `server.faults` make it a bad server, `server.recorder` keeps what was asked,
`server.access` holds callers to the roles in the store.

Why not kmock (0.8): it answers over HTTP what a test lays in, and its emulator keeps objects, but resourceVersion
is the text "..." (nothing conflicts, no watch goes on from one, nothing expires), there are no UIDs or
preconditions, no server-side apply or strategic merge, no grace periods, generations, schemas, pages, selectors,
dry runs, subresources or exec. All that is left of it under what is needed here would be the routing.

What passes here is not proven of a real API server. In particular:
- Admission webhooks, API priority and fairness, quotas, default service accounts, aggregated servers, TLS, HTTP/2,
  protobuf and SPDY do not exist here (kubectl `create deployment` sends protobuf: use YAML). CEL rules of schemas
  are not evaluated; nor are oneOf, anyOf, not and format. Conversion between versions of a resource changes its
  name only.
- Kubernetes' own kinds are decoded by the published OpenAPI document; of the validation in the real server's code
  only some is here (names, immutable pod specs, Job templates, selectors, finalizers), and of its defaults few.
- Server-side apply follows structured-merge-diff for maps, sets, lists by keys and atomic values. It does not move
  fields between versions, and `managedFields` are not cut at their size limit.
- resourceVersions are one small counter, and there is one server: several servers with caches that lag behind each
  other, stale reads and etcd's own failures cannot be seen.
- Times between things are those of this machine, and nothing here says how fast a real server is, or how it sheds
  load.
- A kubelet, the garbage collector and controllers are those of `kube_sim`: they do what their documentation and
  source say as far as somebody has written it down here.
- A Role that suffices here suffices for RBAC; other authorisers (Node, webhook) are not simulated.
"""
