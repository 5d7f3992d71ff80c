"""The six rejections that Appendix H of the MedVLSynther paper works through, with what its
verifier said."""

from __future__ import annotations

from heldout.synth import Draft, PaperFigure

# (criterion that failed, caption, mentions, question, options, answer, the verifier's note)
REJECTIONS = (
    (
        "self-contained",
        "Additively manufactured model of a pelvis with severe osteolysis.",
        (),
        "Which finding is most consistent with the severe osteolysis described in the context?",
        (
            "Intact ischial ramus on AM model",
            "Complete destruction of ischial ramus",
            "Stable acetabular prosthesis",
            "Minimal bone loss around acetabulum",
            "Intact pubic ramus on AM model",
        ),
        "B",
        "Stem references 'context', violating self-containment.",
    ),
    (
        "vocabulary",
        "A six-year-old girl with right side neglected modified Severin classification type IV "
        "developmental "
        "dysplasia of hip.",
        (
            "A 6-year-old girl was admitted to our outpatient clinic with complaints of limping in "
            "June 2009.",
        ),
        "Which abnormality is most consistent with the radiographic findings in this six-year-old girl?",
        (
            "Right hip subluxation with acetabular dysplasia",
            "Left hip dislocation with femoral head avascular necrosis",
            "Bilateral femoral neck fractures",
            "Pelvic osteomyelitis",
            "Sacroiliac joint ankylosis",
        ),
        "A",
        "Stem introduces age and sex not visible in image.",
    ),
    (
        "diagnosis-leak",
        "A 37-year-old woman with a palpable mass on the upper outer quadrant of the right "
        "breast. (g) invasive "
        "ductal carcinoma, grade 1, showing infiltrating malignant glands within desmoplastic stroma. (h) "
        "high-power magnification showing predominant tubular formation, mild nuclear atypia "
        "with rare mitosis. "
        "(i) ER immunostain showing strong diffuse positivity with anti-ER antibody.",
        (),
        "A 37-year-old woman presents with a palpable mass in the upper outer quadrant of the "
        "right breast. "
        "Imaging and biopsy reveal a circumscribed hypoechoic mass with flow, invasive ductal "
        "carcinoma, grade "
        "1, with predominant tubular formation, mild nuclear atypia, and strong diffuse ER "
        "positivity. Which "
        "histopathological feature is most consistent with the tumor grade?",
        (
            "Poorly differentiated with marked nuclear atypia and frequent mitoses",
            "Moderately differentiated with solid nests and moderate nuclear atypia",
            "Well-differentiated with predominant tubular formation and mild nuclear atypia",
            "In situ carcinoma with comedonecrosis",
            "Metastatic carcinoma with signet ring cells",
        ),
        "C",
        "Stem restates diagnosis from caption.",
    ),
    (
        "single-answer",
        "Panoramic view after implant insertion.",
        (),
        "Which of the following best describes the radiographic appearance of the dental implants in this "
        "panoramic view?",
        (
            "All implants are fully osseointegrated with no peri-implant radiolucency",
            "Multiple implants show peri-implant radiolucency indicating early failure",
            "Implants are positioned in the maxillary arch",
            "Implants are surrounded by dense cortical bone",
            "Implants exhibit significant angulation errors",
        ),
        "B",
        "Option B is not clearly supported by image.",
    ),
    (
        "option-type",
        "Scoliosis series and kyphosis series images of the patient. The scoliosis "
        "anteroposterior view image "
        "(2A) shows the patient's trunk flexed to the left side by 12.31 degrees; the kyphosis "
        "series lateral "
        "image (2B) shows anterior flexion by 16.18 degrees of the patient's trunk.",
        (),
        "Which measurement represents the degree of trunk flexion in the lateral view?",
        (
            "12.31 degrees",
            "16.18 degrees",
            "Anterior flexion",
            "Left-side flexion",
            "Trunk flexion angle",
        ),
        "B",
        "Options mix numeric values and descriptive terms.",
    ),
    (
        "clinical-validity",
        "A 41-year-old male with cervical tuberculosis. Neutral lateral cervical spine "
        "radiograph (A) indicates "
        "cervical kyphosis of 51 degree at C3-6. The Cobb angle was 21 degree on MRI, which "
        "indicated that the "
        "flexibility was 58.8% (D).",
        (
            "The flexibility of kyphosis was evaluated on both dynamic extension-flexion X-rays and "
            "cervical MRI.",
        ),
        "Which imaging modality best demonstrates the flexibility of cervical kyphosis in this patient?",
        (
            "Neutral lateral cervical spine radiograph",
            "Flexion lateral cervical spine radiograph",
            "Extension lateral cervical spine radiograph",
            "MRI",
            "CT scan",
        ),
        "D",
        "MRI does not best demonstrate flexibility.",
    ),
)


def cases() -> list[tuple[str, Draft, PaperFigure, str]]:
    """(criterion that must fail, item, figure, the verifier's note)."""
    made = []
    for criterion, caption, references, question, options, answer, note in REJECTIONS:
        figure = PaperFigure(
            f"case/{criterion}",
            "case",
            "",
            caption,
            references,
            (),
            "CC BY 4.0",
            "",
            True,
            "",
            "seed",
        )
        draft = Draft(figure.id, figure.id, question, options, answer)
        made.append((criterion, draft, figure, note))
    return made
