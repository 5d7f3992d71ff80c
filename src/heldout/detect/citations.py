"""What to cite for a method, as BibTeX writes it."""

from __future__ import annotations

from typing import NamedTuple


class Citation(NamedTuple):
    """One entry of a bibliography.

    Args:
        kind: ``article``, ``misc``, …
        key: What ``\\cite`` takes.
        fields: Title, author, year and the rest.
    """

    kind: str
    key: str
    fields: dict[str, str]

    def text(self) -> str:
        lines = [f"  {name:<9} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def arxiv(key: str, title: str, author: str, year: int, eprint: str, venue: str = "") -> Citation:
    fields = {"title": title, "author": author, "year": str(year)}
    if venue:
        fields["booktitle"] = venue
    fields |= {"eprint": eprint, "archiveprefix": "arXiv"}
    return Citation("inproceedings" if venue else "misc", key, fields)


def article(
    key: str,
    title: str,
    author: str,
    journal: str,
    year: int,
    volume: str,
    pages: str,
    number: str = "",
) -> Citation:
    fields = {"title": title, "author": author, "journal": journal, "volume": volume}
    if number:
        fields["number"] = number
    return Citation("article", key, {**fields, "pages": pages, "year": str(year)})


OREN = arxiv(
    "oren2024proving",
    "Proving Test Set Contamination in Black-Box Language Models",
    "Oren, Yonatan and Meister, Nicole and Chatterji, Niladri S. and Ladhak, Faisal and Hashimoto, "
    "Tatsunori",
    2024,
    "2310.17623",
    "International Conference on Learning Representations",
)
SHI = arxiv(
    "shi2023detecting",
    "Detecting Pretraining Data from Large Language Models",
    "Shi, Weijia and Ajith, Anirudh and Xia, Mengzhou and Huang, Yangsibo and Liu, Daogao and Blevins, "
    "Terra and Chen, Danqi and Zettlemoyer, Luke",
    2023,
    "2310.16789",
)
ZHANG = arxiv(
    "zhang2025mink",
    "{Min-K\\%++}: Improved Baseline for Detecting Pre-Training Data from Large Language Models",
    "Zhang, Jingyang and Sun, Jingwei and Yeats, Eric and Ouyang, Yang and Kuo, Martin and Zhang, Jianyi "
    "and Yang, Hao Frank and Li, Hai",
    2025,
    "2404.02936",
    "International Conference on Learning Representations",
)
CARLINI = arxiv(
    "carlini2021extracting",
    "Extracting Training Data from Large Language Models",
    "Carlini, Nicholas and Tram{\\`e}r, Florian and Wallace, Eric and Jagielski, Matthew and "
    "Herbert-Voss, Ariel and Lee, Katherine and Roberts, Adam and Brown, Tom and Song, Dawn and "
    "Erlingsson, {\\'U}lfar and Oprea, Alina and Raffel, Colin",
    2021,
    "2012.07805",
    "USENIX Security Symposium",
)
YEOM = arxiv(
    "yeom2018privacy",
    "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting",
    "Yeom, Samuel and Giacomelli, Irene and Fredrikson, Matt and Jha, Somesh",
    2018,
    "1709.01604",
)
LI = arxiv(
    "li2024membership",
    "Membership Inference Attacks against Large Vision-Language Models",
    "Li, Zhan and Wu, Yongtao and Chen, Yihang and Tonin, Francesco and Abad Rocamora, Elias and Cevher, "
    "Volkan",
    2024,
    "2411.02902",
)
DAS = arxiv(
    "das2024blind",
    "Blind Baselines Beat Membership Inference Attacks for Foundation Models",
    "Das, Debeshee and Zhang, Jie and Tram{\\`e}r, Florian",
    2024,
    "2406.16201",
)
SONG = arxiv(
    "song2024both",
    "Both Text and Images Leaked! {A} Systematic Analysis of Data Contamination in Multimodal {LLM}",
    "Song, Dingjie and Lai, Sicheng and Wang, Mingxuan and Chen, Shunian and Sun, Lichao and Wang, Benyou",
    2024,
    "2411.03823",
)
CHEN = arxiv(
    "chen2024right",
    "Are We on the Right Way for Evaluating Large Vision-Language Models?",
    "Chen, Lin and Li, Jinsong and Dong, Xiaoyi and Zhang, Pan and Zang, Yuhang and Chen, Zehui and Duan, "
    "Haodong and Wang, Jiaqi and Qiao, Yu and Lin, Dahua and Zhao, Feng",
    2024,
    "2403.20330",
)
LIU = arxiv(
    "liu2023mmbench",
    "{MMBench}: Is Your Multi-modal Model an All-around Player?",
    "Liu, Yuan and Duan, Haodong and Zhang, Yuanhan and Li, Bo and Zhang, Songyang and Zhao, Wangbo and "
    "Yuan, Yike and Wang, Jiaqi and He, Conghui and Liu, Ziwei and Chen, Kai and Lin, Dahua",
    2023,
    "2307.06281",
)
YAO = arxiv(
    "yao2024data",
    "Data Contamination Can Cross Language Barriers",
    "Yao, Feng and Zhuang, Yufan and Sun, Zihao and Xu, Sunan and Kumar, Animesh and Shang, Jingbo",
    2024,
    "2406.13236",
    "Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing",
)
PARK = arxiv(
    "park2025contamination",
    "Contamination Detection for {VLMs} using Multi-Modal Semantic Perturbation",
    "Park, Jaden and Cai, Mu and Yao, Feng and Shang, Jingbo and Lee, Soochahn and Lee, Yong Jae",
    2025,
    "2511.03774",
)
DENG = arxiv(
    "deng2024investigating",
    "Investigating Data Contamination in Modern Benchmarks for Large Language Models",
    "Deng, Chunyuan and Zhao, Yilun and Tang, Xiangru and Gerstein, Mark and Cohan, Arman",
    2024,
    "2311.09783",
    "Proceedings of the 2024 Conference of the North American Chapter of the Association for Computational "
    "Linguistics: Human Language Technologies",
)
MAINI = arxiv(
    "maini2024llm",
    "{LLM} Dataset Inference: Did you train on my dataset?",
    "Maini, Pratyush and Jia, Hengrui and Papernot, Nicolas and Dziedzic, Adam",
    2024,
    "2406.06443",
)
DEKONINCK = arxiv(
    "dekoninck2024constat",
    "{ConStat}: Performance-Based Contamination Detection in Large Language Models",
    'Dekoninck, Jasper and M{\\"u}ller, Mark Niklas and Vechev, Martin',
    2024,
    "2405.16281",
    "Advances in Neural Information Processing Systems",
)
XU = arxiv(
    "xu2024benchmarking",
    "Benchmarking Benchmark Leakage in Large Language Models",
    "Xu, Ruijie and Wang, Zengzhi and Fan, Run-Ze and Liu, Pengfei",
    2024,
    "2404.18824",
)
