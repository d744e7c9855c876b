"""Sub-kinds of `init_stuck`: the instance never came to its first completed collective."""

from __future__ import annotations

from rankmuster.diagnose.catalogue_entry import Entry
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.plane import Plane

RAS_BLIND = (Plane.RAS, "before a communicator exists its report is empty, and says nothing of who is late")
FLIGHT_BLIND = (Plane.FLIGHT, "records operations; a rank that has issued none leaves no entry, or no dump at all")
ENGINE_BLIND = (Plane.ENGINE, "its metrics begin when the engine is ready")

ENTRIES = (
    Entry(
        Subkind.RANK_ABSENT,
        "A communicator is being made and one or more of its ranks never came. The others wait inside init; nothing is "
        "broken on their side.",
        (
            (Subkind.MISSING_ENTER, "there the group has worked before; here it never completed its init"),
            (Subkind.BOOTSTRAP_UNREACHABLE, "there the rank came and cannot be reached: its log says `Init START`"),
            (Subkind.EXITED, "there the process is gone; here it lives, or its end is not known"),
        ),
        (
            (Plane.NCCL_LOG, "`Init START` of every rank but the absent ones, and no `Init COMPLETE`"),
            (Plane.FLIGHT, "the peers' dumps end in a first operation that the absent rank does not have"),
            (Plane.PLATFORM, "a pod that is pending, pulling, or failed"),
            (Plane.FRAMEWORK_LOG, "the absent rank's own log: loading, compiling, an exception"),
        ),
        (RAS_BLIND, ENGINE_BLIND),
        (
            "the rank is still loading weights or compiling",
            "it failed before init and its supervisor did not notice",
            "its pod is not scheduled, or its world size or rank number is wrong",
            "it takes another branch and makes other groups first",
        ),
        (
            "grep -c 'Init START' nccl/*.log",
            "py-spy dump --pid PID        # of the absent rank",
            "kubectl get pods -o wide; kubectl describe pod POD",
        ),
        "Only if the absent rank's own log shows that it is loading and comes later: then the init time-out (not the "
        "collective's) has to hold the slowest load seen.",
    ),
    Entry(
        Subkind.NO_INTERFACE,
        "NCCL found no network interface on this host that fits its settings, so the rank cannot even offer an "
        "address.",
        (
            (Subkind.BOOTSTRAP_UNREACHABLE, "there an interface was chosen, and peers cannot reach its address"),
            (Subkind.ADDRESS_OR_GID, "there init is past its bootstrap and the data path fails"),
        ),
        (
            (Plane.NCCL_LOG, "`Bootstrap : no socket interface found` or `NET/Socket : no interface found`"),
            (Plane.FRAMEWORK_LOG, "gloo's `Unable to find address for: ...`, in the ranks that have no such interface"),
            (Plane.TOPOLOGY, "the interfaces that do exist on the host"),
        ),
        (RAS_BLIND, FLIGHT_BLIND, ENGINE_BLIND),
        (
            "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names an interface that this host or container does not have",
            "the network was not attached to the pod, or is down",
            "an `=` or `^` in the setting means something else than thought",
        ),
        ("ip -br address", "env | grep NCCL_SOCKET_IFNAME        # in the process: /proc/PID/environ"),
    ),
    Entry(
        Subkind.BOOTSTRAP_UNREACHABLE,
        "NCCL chose an interface and gave its address to the peers, who cannot reach it. The log shows retries for "
        "about a minute, then an error.",
        (
            (Subkind.NO_INTERFACE, "there NCCL says that it found none"),
            (Subkind.RENDEZVOUS_TIMEOUT, "there torch's store does not answer; NCCL has not begun"),
            (Subkind.RANK_ABSENT, "there nobody tries to connect: the rank is not there"),
            (Subkind.PATH_LOST, "there the same path has worked before"),
        ),
        (
            (Plane.NCCL_LOG, "`Bootstrap: Using veth…`, then `connect to … returned …, retrying` and its end"),
            (Plane.TOPOLOGY, "which interface is routed and which is a bridge or virtual pair"),
        ),
        (RAS_BLIND, FLIGHT_BLIND, ENGINE_BLIND),
        (
            "a container bridge or virtual pair was chosen because its name sorts first",
            "hosts with several networks, of which one is not routed between them",
            "a firewall or network policy that lets only named ports through",
        ),
        ("grep -h 'Using' nccl/*.log | sort | uniq -c", "ip route get ADDRESS", "nc -vz ADDRESS PORT"),
    ),
    Entry(
        Subkind.RENDEZVOUS_TIMEOUT,
        "The processes did not find each other: torch's store or its rendezvous ran out of time before NCCL was asked "
        "for anything.",
        (
            (Subkind.RANK_ABSENT, "there the rendezvous succeeded and one rank is missing in a communicator"),
            (Subkind.BOOTSTRAP_UNREACHABLE, "there NCCL's own connections fail"),
        ),
        (
            (Plane.FRAMEWORK_LOG, "`DistStoreError`, `Timed out after … waiting for clients`, `RendezvousTimeout`"),
            (Plane.PLATFORM, "processes that are missing or belong to an earlier attempt"),
        ),
        (
            (Plane.NCCL_LOG, "no line is written before NCCL is called"),
            RAS_BLIND,
            FLIGHT_BLIND,
            ENGINE_BLIND,
        ),
        (
            "MASTER_ADDR or its port is wrong, or its name does not resolve yet",
            "fewer processes started than the world size says",
            "a process of the earlier attempt still holds the port",
        ),
        ("nc -vz MASTER_ADDR MASTER_PORT", "ss -ltnp 'sport = :MASTER_PORT'", "getent hosts MASTER_ADDR"),
        "Only if the last processes are seen to start later than the rendezvous allows: then to the slowest start "
        "seen, with a margin.",
    ),
    Entry(
        Subkind.VERSION_MISMATCH,
        "Ranks of one communicator loaded different versions of NCCL (or of the network plugin), whose messages do not "
        "fit each other.",
        (
            (Subkind.SIZE_MISMATCH, "there the library is the same and the program asks for different sizes"),
            (FaultClass.TRANSPORT_STALL, "`Message truncated` looks like the network and is not"),
        ),
        (
            (Plane.NCCL_LOG, "`Mismatched NCCL version detected`, or `NCCL version` lines that differ"),
            (Plane.TOPOLOGY, "library and driver versions per node"),
        ),
        (
            RAS_BLIND,
            FLIGHT_BLIND,
            ENGINE_BLIND,
        ),
        (
            "an image tag that moved between two pulls",
            "LD_LIBRARY_PATH or LD_PRELOAD that puts a system library before the wheel's",
            "a half-finished roll-out",
        ),
        (
            "grep -h 'NCCL version' nccl/*.log logs/* | sort | uniq -c",
            "grep libnccl /proc/PID/maps",
            "kubectl get pods -o jsonpath='{..imageID}'",
        ),
    ),
    Entry(
        Subkind.RESOURCE_LIMIT,
        "The start failed on a limit of the operating system or the container: shared memory, locked memory, files, "
        "or GPU memory.",
        (
            (Subkind.KILLED, "there the kernel ended the process; here a call failed and the process says so"),
            (Subkind.LINK_ERROR, "`ibv_reg_mr` that fails for memory is a limit, not the adapter"),
        ),
        (
            (Plane.NCCL_LOG, "`failed to extend /dev/shm/nccl-…`, `Call to ibv_reg_mr failed … Cannot allocate`"),
            (Plane.FRAMEWORK_LOG, "`No space left on device`, `out of memory`, `Too many open files`"),
            (Plane.KERNEL, "an OOM kill, where the limit is the memory group's"),
        ),
        (RAS_BLIND, FLIGHT_BLIND, ENGINE_BLIND),
        (
            "a /dev/shm of 64 MB, the container runtime's default",
            "memlock that is limited in the service manager though `ulimit` says unlimited",
            "segments that dead processes left in /dev/shm",
        ),
        ("df -h /dev/shm; ls /dev/shm | head", "grep -i 'locked memory' /proc/PID/limits"),
    ),
    Entry(
        Subkind.MISCONFIGURED,
        "The start was refused for how it was set up: two ranks on one GPU, a port that is taken, a network or plugin "
        "that is asked for and not there, a file that cannot be read, a driver too old for the program.",
        (
            (Subkind.RESOURCE_LIMIT, "there a limit is reached; here more of it would not help"),
            (Subkind.NO_INTERFACE, "the one setting that has a name of its own: NCCL_SOCKET_IFNAME fits nothing"),
            (Subkind.VERSION_MISMATCH, "there the ranks differ from each other; here one host alone would fail too"),
            (Subkind.GPU_LOST, "there a GPU that was there is gone; here it was never given, or given twice"),
        ),
        (
            (Plane.NCCL_LOG, "`Duplicate GPU detected`, `network … not found`, `XML Parse error`"),
            (
                Plane.FRAMEWORK_LOG,
                "`address already in use`, `driver version is insufficient`, CUDA errors 35, 100, 803",
            ),
        ),
        (RAS_BLIND, FLIGHT_BLIND, ENGINE_BLIND),
        (
            "a launcher that gives every rank GPU 0, or more ranks than GPUs",
            "NCCL_NET, NCCL_NET_PLUGIN or NCCL_TOPO_FILE taken over from another cluster",
            "a store of an earlier attempt that still listens on MASTER_PORT",
            "an image whose CUDA is newer than the host's driver",
        ),
        ("env | grep -E 'NCCL_|CUDA_|MASTER_|RANK'", "ss -ltnp 'sport = :MASTER_PORT'", "nvidia-smi -L"),
    ),
    Entry(
        Subkind.FABRIC_NOT_READY,
        "The node's NVLink fabric is not ready: the Fabric Manager, the IMEX service or the switches have not finished "
        "or have lost their state, so GPUs cannot be joined.",
        (
            (Subkind.GPU_LOST, "there a GPU does not answer at all; here each answers and the fabric does not"),
            (Subkind.WRONG_PATH, "there the job runs, on a slower path"),
            (Subkind.RESOURCE_LIMIT, "there the failing call names memory of the host"),
        ),
        (
            (Plane.NCCL_LOG, "`Failed to bind NVLink SHARP (NVLS) Multicast memory`, CUDA error 802, IMEX warnings"),
            (Plane.KERNEL, "Fabric Manager errors, SXid lines, NVLink training failures"),
            (Plane.TOPOLOGY, "fabric state `In Progress` instead of `Completed`"),
        ),
        (RAS_BLIND, FLIGHT_BLIND, ENGINE_BLIND),
        (
            "the Fabric Manager was restarted while GPU processes lived",
            "its version differs from the driver's",
            "the IMEX channel or domain is missing on a multi-node NVLink system",
        ),
        (
            "systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager | tail -50",
            "nvidia-smi -q | grep -A4 Fabric",
            "nvidia-imex-ctl -N",
        ),
    ),
)
