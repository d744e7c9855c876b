"""`nvidia-smi -q -x`: the same facts, read without ever expanding an entity."""

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_xml import READER
from rankmuster.model.problem import ProblemKind

XML = """$ nvidia-smi -q -x
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<driver_version>580.1</driver_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:9B:00.0">
		<product_name>NVIDIA H200</product_name>
		<uuid>GPU-aaaaaaaa-0000-0000-0000-000000000000</uuid>
		<pci><pci_gpu_link_info><link_widths><current_link_width>8x</current_link_width></link_widths></pci_gpu_link_info></pci>
		<fabric><state>Completed</state></fabric>
		<supported_clocks><supported_mem_clock><value>3201 MHz</value></supported_mem_clock></supported_clocks>
		<processes><process_info><pid>11</pid><process_name>a &amp;&lt;b</process_name></process_info>
		<process_info><pid>12</pid></process_info></processes>
	</gpu>
	<gpu id="00000000:9C:00.0">
		<uuid>GPU-bbbbbbbb-0000-0000-0000-000000000000</uuid>
	</gpu>
</nvidia_smi_log>
"""


def read(text: str):
    blob = Blob("q.xml", text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_facts_of_each_gpu():
    reading = read(XML)
    first, second = reading.observations
    assert reading.problems == ()
    assert (first.index, first.bus_id, first.name, second.index, second.bus_id) == (
        0,
        "0000:9b:00",
        "NVIDIA H200",
        1,
        "0000:9c:00",
    )
    assert first.facts["pci / pci_gpu_link_info / link_widths / current_link_width"] == "8x"
    assert first.facts["fabric / state"] == "Completed"
    assert first.facts["driver_version"] == "580.1"
    assert first.facts["processes / process_info / pid #2"] == "12"
    assert first.facts["processes / process_info / process_name"] == "a &<b"
    assert not any("supported_clocks" in key for key in first.facts)


def test_a_cut_file_gives_the_gpus_before_the_cut():
    reading = read(XML[: XML.index('<gpu id="00000000:9C')])
    assert [g.bus_id for g in reading.observations] == ["0000:9b:00"]
    assert reading.observations[0].index is None
    assert reading.problems[0].kind is ProblemKind.DAMAGED


def test_a_document_with_entities_of_its_own_is_refused():
    for evil in (
        XML.replace(' SYSTEM "nvsmi_device_v13.dtd"', ' [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]'),
        XML.replace("<nvidia_smi_log>\n", "<nvidia_smi_log><!ENTITY x SYSTEM 'file:///etc/passwd'>\n", 1),
    ):
        reading = read(evil)
        assert reading.observations == ()
        assert [p.kind for p in reading.problems] == [ProblemKind.REFUSED]
