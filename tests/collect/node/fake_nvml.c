/* A libnvidia-ml.so.1 of four GPUs for tests, so that the real binding's code runs without a driver.
   FAKE_NVML: normal | block (GPU 2 never answers a field query) | lost (GPU 2) | crash (after some calls) | crash-soon
   | bare (hardly anything is supported) | blackwell (bytes per link only) | init-blocks | no-driver | hidden (no
   processes) | still (no byte moves) | xid (GPU 1 reports 79, once) | no-links. Every GPU has one process,
   FAKE_NVML_PID + index. With FAKE_NVML_FILE the mode is what that file holds, and may change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OK 0
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define DRIVER_NOT_LOADED 9
#define INSUFFICIENT_SIZE 7
#define LOST 15

typedef struct { int index; } Device;
static Device devices[4] = {{0}, {1}, {2}, {3}};
static int calls;

static int is(const char *mode) {
    const char *said = getenv("FAKE_NVML"), *path = getenv("FAKE_NVML_FILE");
    static __thread char text[32];
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file != NULL) {
        if (fscanf(file, "%31s", text) == 1) said = text;
        fclose(file);
    }
    return said != NULL && strcmp(said, mode) == 0;
}
static long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}
static int gate(Device *gpu) {
    if ((is("crash") && ++calls > 300) || (is("crash-soon") && ++calls > 40)) { int *nowhere = NULL; *(volatile int *)nowhere = 1; }
    if (is("lost") && gpu->index == 2) return LOST;
    if (is("bare")) return NOT_SUPPORTED;
    return OK;
}
static void forever(void) { for (;;) sleep(1000); }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (is("init-blocks")) forever();
    return is("no-driver") ? DRIVER_NOT_LOADED : OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error of the fake"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.159.04"); return OK; }
int nvmlSystemGetNVMLVersion(char *text, unsigned size) { snprintf(text, size, "13.580.159.04"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **gpu) { *gpu = &devices[index]; return OK; }
int nvmlDeviceGetUUID(Device *gpu, char *text, unsigned size) {
    snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%d", gpu->index);
    return OK;
}
int nvmlDeviceGetName(Device *gpu, char *text, unsigned size) { (void)gpu; snprintf(text, size, "Fake H200"); return OK; }
int nvmlDeviceGetVbiosVersion(Device *gpu, char *text, unsigned size) {
    int code = gate(gpu);
    if (code == OK) snprintf(text, size, "96.00.A5.00.1A");
    return code;
}
typedef struct { char old[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *gpu, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x9A + gpu->index);
    return OK;
}
typedef struct { unsigned gpu, memory; } Load;
int nvmlDeviceGetUtilizationRates(Device *gpu, Load *load) {
    int code = gate(gpu);
    load->gpu = gpu->index == 3 ? 0 : 100;
    load->memory = 1;
    return code;
}
int nvmlDeviceGetPowerUsage(Device *gpu, unsigned *power) { *power = 210400 + gpu->index; return gate(gpu); }
int nvmlDeviceGetClockInfo(Device *gpu, int kind, unsigned *clock) { *clock = kind == 1 ? 1980 : 3201; return gate(gpu); }
int nvmlDeviceGetTemperature(Device *gpu, int sensor, unsigned *t) { (void)sensor; *t = 34; return gate(gpu); }
typedef struct { unsigned version; int sensor; int temperature; } Temperature;
int nvmlDeviceGetTemperatureV(Device *gpu, Temperature *t) { t->temperature = 34; return gate(gpu); }
int nvmlDeviceGetCurrentClocksEventReasons(Device *gpu, unsigned long long *r) { *r = 4; return gate(gpu); }
int nvmlDeviceGetCurrPcieLinkGeneration(Device *gpu, unsigned *v) { *v = 5; return gate(gpu); }
int nvmlDeviceGetMaxPcieLinkGeneration(Device *gpu, unsigned *v) { *v = 5; return gate(gpu); }
int nvmlDeviceGetCurrPcieLinkWidth(Device *gpu, unsigned *v) { *v = 8; return gate(gpu); }
int nvmlDeviceGetMaxPcieLinkWidth(Device *gpu, unsigned *v) { *v = 16; return gate(gpu); }
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *gpu, unsigned *count, Process *list) {
    int code = gate(gpu);
    const char *first = getenv("FAKE_NVML_PID");
    if (code != OK) return code;
    if (is("hidden")) { *count = 0; return OK; }
    if (list == NULL || *count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    *count = 1;
    list[0].pid = (first ? (unsigned)atoi(first) : 4242) + gpu->index;
    list[0].used = 1 << 30;
    list[0].gi = list[0].ci = 0xFFFFFFFF;
    return OK;
}
typedef struct {
    unsigned id, scope; long long at, latency; unsigned kind, code;
    union { double d; unsigned ui; unsigned long long ull; } value;
} Field;
int nvmlDeviceGetFieldValues(Device *gpu, int count, Field *fields) {
    int code = gate(gpu);
    if (code != OK) return code;
    if (is("block") && gpu->index == 2) forever();
    for (int i = 0; i < count; i++) {
        Field *field = &fields[i];
        field->code = OK;
        field->kind = 3;
        switch (field->id) {
        case 138: case 139:
            field->value.ull = 1000000 + (is("still") ? 0 : milliseconds() * 40);
            if (is("blackwell") || is("no-links") || field->scope != 0xFFFFFFFF) field->code = NOT_SUPPORTED;
            break;
        case 202: case 204:
            field->value.ull = 1024ULL * (1000 + milliseconds());
            if (!is("blackwell")) field->code = NOT_SUPPORTED;
            break;
        case 83: field->value.ull = 123456789 + milliseconds(); break;
        case 91: field->value.ull = is("no-links") ? 0 : 3; break;
        case 145: field->value.ull = gpu->index == 1; break;
        case 164: field->value.ull = 26562; break;
        case 165: field->value.ull = field->scope == 2 ? 0 : 1; break;
        case 166: field->value.ull = 6; break;
        case 161: field->value.ull = field->scope; break;
        case 230: field->value.ull = gpu->index == 1 ? 1 : 0; break;
        case 197: field->value.ull = is("no-links") ? 0xFFFFFFFF & (milliseconds() * 100000) : 77; break;
        case 3: case 4: case 5: case 6: field->value.ull = 0; break;
        default: field->code = NOT_SUPPORTED;
        }
    }
    return OK;
}
/* Links lead to switches; in mode "vm" where they lead is not to be seen, in mode "mesh" link i leads to GPU (own+1+i)%4.
   FAKE_NVML_P2P: letter and code for every pair, "r4" means that reading is switched off. */
int nvmlDeviceGetNvLinkRemoteDeviceType(Device *gpu, unsigned link, unsigned *type) {
    (void)link;
    *type = is("vm") ? 255 : is("mesh") ? 0 : 2;
    return is("vm") ? NOT_SUPPORTED : gate(gpu);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *gpu, unsigned link, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    if (is("vm")) snprintf(pci->bus_id, sizeof pci->bus_id, "FFFFFFFF:FF:FF.0");
    else if (is("mesh")) snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x9A + (gpu->index + 1 + link) % 4);
    else snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0xC0 + link);
    return gate(gpu);
}
int nvmlDeviceGetP2PStatus(Device *gpu, Device *other, int index, int *status) {
    const char *said = getenv("FAKE_NVML_P2P");
    if (is("block") && (gpu->index == 2 || other->index == 2)) forever();
    *status = index == 3 ? 5 : 0;
    if (said != NULL && said[0] == "rwnap"[index]) *status = said[1] - '0';
    return gate(gpu);
}
int nvmlDeviceGetTopologyCommonAncestor(Device *gpu, Device *other, int *level) {
    *level = gpu->index / 2 == other->index / 2 ? 10 : 50;
    return gate(gpu);
}
int nvmlDeviceGetMigMode(Device *gpu, unsigned *now, unsigned *next) { *now = *next = 0; return gate(gpu); }
int nvmlDeviceGetEccMode(Device *gpu, int *now, int *next) { *now = *next = 1; return gate(gpu); }
typedef struct { Device *gpu; unsigned long long type, data; unsigned gi, ci; } Event;
static int told;
int nvmlEventSetCreate(void **set) { *set = &told; return OK; }
int nvmlDeviceRegisterEvents(Device *gpu, unsigned long long types, void *set) {
    (void)set;
    return types == 8 ? gate(gpu) : NOT_SUPPORTED;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout) {
    long long until = milliseconds() + timeout;
    (void)set;
    for (; milliseconds() < until; usleep(10000)) {
        if (told || !is("xid")) continue;
        told = 1;
        memset(event, 0, sizeof *event);
        event->gpu = &devices[1];
        event->type = 8;
        event->data = 79;
        return OK;
    }
    return 10;
}
